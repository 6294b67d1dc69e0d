package kustomizations

import (
	"regexp"
	"strings"
)

// ignoring decides by the rules of .gitignore which files a kustomization does not see.
//
// The libraries for this differ from git: in two stars that must backtrack, in files that are included again below an
// excluded folder, in escaped blanks. Each rule is one regular expression here, and a test compares with
// git itself.
type ignoring struct {
	rules []ignoreRule
}

type ignoreRule struct {
	pattern    *regexp.Regexp
	negated    bool // !: includes what earlier rules ignore
	folderOnly bool // ends with a slash
}

func readIgnore(text []byte) *ignoring {
	result := &ignoring{}
	for line := range strings.SplitSeq(strings.TrimPrefix(string(text), "\ufeff"), "\n") {
		if rule, isRule := readRule(strings.TrimSuffix(line, "\r")); isRule {
			result.rules = append(result.rules, rule)
		}
	}
	return result
}

// readRule returns nothing for blank lines, comments, and patterns that git cannot match either.
func readRule(line string) (ignoreRule, bool) {
	line = withoutBlanks.ReplaceAllString(line, "$1")
	if line == "" || strings.HasPrefix(line, "#") {
		return ignoreRule{}, false
	}
	var rule ignoreRule
	if strings.HasPrefix(line, "!") {
		rule.negated, line = true, line[1:]
	}
	if strings.HasSuffix(line, "/") {
		rule.folderOnly, line = true, line[:len(line)-1]
	}
	anchored := strings.Contains(line, "/")
	expression, ok := translate(strings.TrimPrefix(line, "/"))
	if line == "" || !ok {
		return ignoreRule{}, false
	}
	if !anchored {
		expression = `(?:.*/)?` + expression
	}
	pattern, err := regexp.Compile(`(?s)\A` + expression + `\z`)
	if err != nil {
		return ignoreRule{}, false
	}
	rule.pattern = pattern
	return rule, true
}

// withoutBlanks has a line without the blanks at its end in its group; a backslash protects the character after it.
var withoutBlanks = regexp.MustCompile(`^((?:[^\\]|\\.|\\$)*?) *$`)

// translate turns a pattern into a regular expression for a whole path.
func translate(pattern string) (string, bool) {
	var result strings.Builder
	for rest := pattern; rest != ""; {
		atSegment := len(rest) == len(pattern) || pattern[len(pattern)-len(rest)-1] == '/'
		switch {
		case atSegment && rest == "**":
			result.WriteString(`.+`)
			return result.String(), true
		case atSegment && strings.HasPrefix(rest, "**/"):
			result.WriteString(`(?:.*/)?`)
			rest = rest[3:]
		case rest[0] == '*':
			result.WriteString(`[^/]*`)
			rest = strings.TrimLeft(rest, "*")
		case rest[0] == '?':
			result.WriteString(`[^/]`)
			rest = rest[1:]
		case rest[0] == '[':
			class, length, ok := translateClass(rest)
			if !ok {
				return "", false
			}
			result.WriteString(class)
			rest = rest[length:]
		case rest[0] == '\\':
			if len(rest) < 2 {
				return "", false
			}
			result.WriteString(regexp.QuoteMeta(rest[1:2]))
			rest = rest[2:]
		default:
			result.WriteString(regexp.QuoteMeta(rest[:1]))
			rest = rest[1:]
		}
	}
	return result.String(), true
}

// translateClass reads [a-z], [!a-z] and [[:alpha:]]. No class matches a slash.
func translateClass(text string) (class string, length int, ok bool) {
	var result strings.Builder
	index, negated := 1, false
	if index < len(text) && (text[index] == '!' || text[index] == '^') {
		negated = true
		index++
	}
	for first := true; index < len(text); first = false {
		switch {
		case text[index] == ']' && !first:
			if negated {
				return `[^/` + result.String() + `]`, index + 1, true
			}
			return `(?:[` + result.String() + `])`, index + 1, true
		case strings.HasPrefix(text[index:], "[:"):
			end := strings.Index(text[index:], ":]")
			if end < 0 {
				return "", 0, false
			}
			result.WriteString(text[index : index+end+2])
			index += end + 2
		case text[index] == '\\' && index+1 < len(text):
			result.WriteString(regexp.QuoteMeta(text[index+1 : index+2]))
			index += 2
		case text[index] == '-' && !first && index+1 < len(text) && text[index+1] != ']':
			result.WriteByte('-')
			index++
		default:
			if strings.IndexByte(`\]^-[&~`, text[index]) >= 0 {
				result.WriteByte('\\')
			}
			result.WriteByte(text[index])
			index++
		}
	}
	return "", 0, false
}

// matches is true where a file is ignored. A file in an ignored folder cannot be included again, as in git.
func (i *ignoring) matches(file string) bool {
	for end := range len(file) {
		if file[end] == '/' && i.decides(file[:end], true) {
			return true
		}
	}
	return i.decides(file, false)
}

// decides applies the last rule that matches.
func (i *ignoring) decides(name string, isFolder bool) bool {
	for index := len(i.rules) - 1; index >= 0; index-- {
		rule := i.rules[index]
		if (isFolder || !rule.folderOnly) && rule.pattern.MatchString(name) {
			return !rule.negated
		}
	}
	return false
}
