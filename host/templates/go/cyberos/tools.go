// Package cyberos turns Go functions into what the world cyberos:plugin/plugin exports. The contract is in wit/.
package cyberos

import (
	"encoding/json"
	"fmt"

	"plugin.local/{{ name }}/internal/abi"
)

// Annotations say what a tool may do. All six are always given.
type Annotations struct {
	ReadOnly, Destructive, Idempotent, OpenWorld, Write, ExternalEffect bool
}

var (
	// ReadOnly changes nothing.
	ReadOnly = Annotations{ReadOnly: true, Idempotent: true}
	// Write changes something, and that can be undone.
	Write = Annotations{Write: true}
	// Destructive may destroy or overwrite something: every call waits for a person's confirmation.
	Destructive = Annotations{Write: true, Destructive: true}
)

// TaskSupport says whether a call may run as a task.
type TaskSupport uint8

const (
	TaskForbidden TaskSupport = iota
	TaskOptional
	TaskRequired
)

// Tool is one tool as agents see it. Input and Output are JSON Schemas; Output, Scopes, Icons and Meta may be empty.
type Tool struct {
	Name, Title, Description string
	Input, Output            string
	Annotations              Annotations
	Scopes                   []string
	TaskSupport              TaskSupport
	IdempotentTask           bool
	Icons, Meta              string
	// Call takes the arguments, a JSON object that matches Input. See Typed.
	Call func(arguments []byte) (Result, error)
}

// Result is what a call gives back: a JSON object that matches the output schema, text, or both.
type Result struct {
	Structured string
	Text       string
	// Failed: the tool itself failed in a way that the model can act on, and Text says how.
	Failed bool
}

// Failure ends a call without a result. An error of any other type counts as Internal.
type Failure struct {
	kind uint8
	text string
}

func (f *Failure) Error() string { return f.text }

// InvalidInput: the arguments are wrong in a way that the schema could not express.
func InvalidInput(text string) error { return &Failure{0, text} }

// Denied: the caller may not do this.
func Denied(text string) error { return &Failure{1, text} }

// Unavailable: something that the tool needs is not there now.
func Unavailable(text string) error { return &Failure{2, text} }

// Internal: the tool is broken. The text goes to the operator's log.
func Internal(text string) error { return &Failure{3, text} }

// Typed makes a Call of a function on types of your own. A Result is taken as it is, all else becomes structured.
func Typed[A, R any](call func(A) (R, error)) func([]byte) (Result, error) {
	return func(text []byte) (Result, error) {
		var arguments A
		if err := json.Unmarshal(text, &arguments); err != nil {
			return Result{}, InvalidInput(err.Error())
		}
		answer, err := call(arguments)
		if err != nil {
			return Result{}, err
		}
		if result, is := any(answer).(Result); is {
			return result, nil
		}
		structured, err := json.Marshal(answer)
		if err != nil {
			return Result{}, Internal(err.Error())
		}
		return Result{Structured: string(structured)}, nil
	}
}

var tools []Tool

// Serve offers tools. Call it from an init function.
func Serve(more ...Tool) {
	tools = append(tools, more...)
	abi.Rest()
}

func call(name string, arguments []byte) (Result, error) {
	for _, tool := range tools {
		if tool.Name == name {
			return tool.Call(arguments)
		}
	}
	return Result{}, Internal(fmt.Sprintf("it has no tool %s", name))
}
