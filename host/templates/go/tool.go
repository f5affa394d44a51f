package main

import "plugin.local/{{ name }}/cyberos"

type Arguments struct {
	Name string `json:"name"`
}

type Greeting struct {
	Text string `json:"text"`
}

func greet(arguments Arguments) (Greeting, error) {
	return Greeting{Text: "Hello, " + arguments.Name + "!"}, nil
}

func init() {
	cyberos.Serve(cyberos.Tool{
		Name:        "{{ tool }}",
		Title:       "Greet",
		Description: "Returns a greeting for the given name. Use it to try the bridge.",
		Annotations: cyberos.ReadOnly,
		Input: `{
			"type": "object",
			"properties": {"name": {"type": "string", "minLength": 1, "maxLength": 100, "description": "Who to greet."}},
			"required": ["name"],
			"additionalProperties": false
		}`,
		Output: `{
			"type": "object",
			"properties": {"text": {"type": "string", "description": "The greeting, ready to be shown."}},
			"required": ["text"],
			"additionalProperties": false
		}`,
		Call: cyberos.Typed(greet),
	})
}

func main() {}
