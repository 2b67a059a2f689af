package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxCall is the maximal number of bytes that one of our own providers reads.
const maxCall = 64 << 20

// Call is the input of a call of one of our own providers. S holds the attributes that an update
// changes.
type Call[S any] struct {
	Names   []string        `json:"names"`
	Updates []CallUpdate[S] `json:"updates"`
	Ral     struct {
		Noop bool `json:"noop"`
	} `json:"ral"`
}

// CallUpdate omits the key "is" of the input, because our own providers record the current state.
type CallUpdate[S any] struct {
	Name   string `json:"name"`
	Should S      `json:"should"`
}

// ReadCall reads the input of a call.
func ReadCall[S any](in io.Reader) (c Call[S], err error) {
	text, err := io.ReadAll(io.LimitReader(in, maxCall+1))
	if err == nil && len(text) > maxCall {
		err = fmt.Errorf("it is larger than %d bytes", maxCall)
	}
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		err = fmt.Errorf("standard input: %w", err)
	}
	return c, err
}

// WriteAnswer writes the answer of a call.
func WriteAnswer(out io.Writer, answer map[string]any) error {
	b, err := json.Marshal(answer)
	if err == nil {
		_, err = out.Write(append(b, '\n'))
	}
	return err
}

// Failure returns the entry of an error: of the whole call, or of one resource. If no Error is in
// err, its kind is Failed.
func Failure(err error) map[string]any {
	kind := Failed
	if e, ok := errors.AsType[*Error](err); ok {
		kind = e.Kind
	}
	return map[string]any{"error": map[string]any{"message": err.Error(), "kind": kind}}
}

// Refuse returns the Error for one update of a call. Its text is for experimenters.
func Refuse(kind Kind, format string, args ...any) error {
	return &Error{Kind: kind, Msg: fmt.Sprintf(format, args...)}
}
