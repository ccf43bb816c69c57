package graph

import (
	"encoding/json"
	"errors"
	"io"
)

// JSON is a value of the scalar JSON: its text.
type JSON json.RawMessage

// MarshalGQL writes the text as it is.
func (j JSON) MarshalGQL(w io.Writer) {
	_, _ = w.Write(j) // into the buffer of the answer
}

// UnmarshalGQL refuses: no argument is of this type.
func (*JSON) UnmarshalGQL(any) error { return errors.New("the scalar JSON is for answers only") }
