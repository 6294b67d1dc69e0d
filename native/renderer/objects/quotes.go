package objects

import (
	"bytes"
	"strconv"
	"strings"

	yaml3 "go.yaml.in/yaml/v3"
)

// Quotes are the places of an object whose text was written in quotes or as a block, and contains the beginning of a
// variable. There the author asked for text, whatever a variable brings.
type Quotes map[string]bool

// Place is one place of an object: the keys and indices that lead to it.
func Place(parent, key string) string { return parent + "\x00" + key }

// At are the places below one place.
func (q Quotes) At(place string) Quotes {
	var found Quotes
	for name := range q {
		if inside, isBelow := strings.CutPrefix(name, place); isBelow && strings.HasPrefix(inside, "\x00") {
			if found == nil {
				found = Quotes{}
			}
			found[inside] = true
		}
	}
	return found
}

// variable is how each variable begins.
const variable = "${"

// QuotesIn finds the quoted texts of a node. JSON has none, because it writes every text in quotes.
func QuotesIn(node *yaml3.Node) Quotes {
	if node.Kind == yaml3.DocumentNode && len(node.Content) > 0 {
		node = node.Content[0]
	}
	if len(node.Content) > 0 && node.Style&yaml3.FlowStyle != 0 && node.Content[0].Style == yaml3.DoubleQuotedStyle {
		return nil
	}
	found := Quotes{}
	found.collect(node, "", MaxDepth)
	return found
}

func (q Quotes) collect(node *yaml3.Node, place string, room int) {
	const quoted = yaml3.DoubleQuotedStyle | yaml3.SingleQuotedStyle | yaml3.LiteralStyle | yaml3.FoldedStyle
	switch {
	case room == 0:
	case node.Kind == yaml3.AliasNode:
		q.collect(node.Alias, place, room-1)
	case node.Kind == yaml3.SequenceNode:
		for index, item := range node.Content {
			q.collect(item, Place(place, strconv.Itoa(index)), room-1)
		}
	case node.Kind == yaml3.MappingNode:
		for index := 0; index+1 < len(node.Content); index += 2 {
			inside := Place(place, node.Content[index].Value)
			if node.Content[index].ShortTag() == "!!merge" {
				inside = place
			}
			q.collect(node.Content[index+1], inside, room-1)
		}
	case node.Kind == yaml3.ScalarNode && node.Style&quoted != 0 && strings.Contains(node.Value, variable):
		q[place] = true
	}
}

// quotesIn finds the quoted texts of one document.
func quotesIn(text []byte) Quotes {
	var document yaml3.Node
	if !bytes.Contains(text, []byte(variable)) || yaml3.Unmarshal(text, &document) != nil {
		return nil
	}
	return QuotesIn(&document)
}
