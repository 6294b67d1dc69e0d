// Package expressions evaluates an expression in CEL on objects to true or false.
//
// The language is what Flux offers for readyExpr: the standard library, strings, sets, encoders and optionals, whole
// numbers and fractions can be compared. An expression is untrusted text, as a template is, but it cannot loop: its steps
// are counted, and the bounds of the request hold for its memory.
package expressions

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/ext"

	"stellwerk/renderer/wire"
)

const (
	// longestText is how many characters an expression may have.
	longestText = 4_096
	// deepest is how far its parentheses and lists may go into each other.
	deepest = 50
	// mostSteps is what one answer may cost, in CEL's own unit: about one for each value that is looked at.
	mostSteps = 1_000_000
)

// Holds is true where the expression of a claim is true for its objects.
func Holds(claim *wire.Claim) (bool, error) {
	names, err := environment()
	if err != nil {
		return false, err
	}
	program, err := compiled(names, claim)
	if err != nil {
		return false, err
	}
	said, _, err := program.ContextEval(context.Background(), objects(claim))
	if err != nil {
		why := err.Error()
		if strings.Contains(why, "cost limit exceeded") {
			why = fmt.Sprintf("it takes more than %d steps", mostSteps)
		}
		return false, failed(why)
	}
	holds, isBool := said.(types.Bool)
	if !isBool {
		return false, failed(fmt.Sprintf("its answer is a %s, and must be a bool", said.Type().TypeName()))
	}
	return bool(holds), nil
}

// environment is the same for all claims but for their names; building it takes longer than most answers.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.ParserExpressionSizeLimit(longestText),
		cel.ParserRecursionLimit(deepest),
		cel.HomogeneousAggregateLiterals(),
		cel.EagerlyValidateDeclarations(true),
		cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true),
		cel.OptionalTypes(),
		ext.Strings(),
		ext.Sets(),
		ext.Encoders(),
	)
})

func compiled(env *cel.Env, claim *wire.Claim) (cel.Program, error) {
	named := make([]cel.EnvOption, 0, len(claim.Objects))
	for name := range claim.Objects {
		named = append(named, cel.Variable(name, cel.MapType(cel.StringType, cel.DynType)))
	}
	env, err := env.Extend(named...)
	if err != nil {
		return nil, err
	}
	tree, issues := env.Compile(claim.Text)
	if found := issues.Errors(); len(found) > 0 {
		return nil, refused(found[0])
	}
	if kind := tree.OutputType(); !kind.IsExactType(cel.BoolType) && !kind.IsExactType(cel.DynType) {
		return nil, &wire.Error{
			Kind: wire.InvalidExpression, Message: fmt.Sprintf("its answer is a %s, and must be a bool", kind),
		}
	}
	return env.Program(tree, cel.CostLimit(mostSteps))
}

// objects are the claim's, with whole numbers as such.
func objects(claim *wire.Claim) map[string]any {
	found := make(map[string]any, len(claim.Objects))
	for name, object := range claim.Objects {
		found[name] = wire.Integers(object)
	}
	return found
}

// refused is an error of the compiler, without the drawing that its own text has.
func refused(found *common.Error) *wire.Error {
	why := &wire.Error{Kind: wire.InvalidExpression, Message: strings.TrimPrefix(found.Message, "Syntax error: ")}
	if found.Location.Line() > 0 {
		why.Line, why.Column = found.Location.Line(), found.Location.Column()+1
	}
	return why
}

func failed(why string) *wire.Error {
	return &wire.Error{Kind: wire.ExpressionFailed, Message: why}
}
