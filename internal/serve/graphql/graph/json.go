package graph

import (
	"encoding/json"
	"errors"
	"io"
)

// JSON is a value of the scalar JSON, as text.
type JSON json.RawMessage

// MarshalGQL writes the text unchanged.
func (j JSON) MarshalGQL(w io.Writer) {
	_, _ = w.Write(j) // into the buffer of the reply
}

// UnmarshalGQL returns an error, because no argument has this type.
func (*JSON) UnmarshalGQL(any) error { return errors.New("the scalar JSON occurs only in replies") }
