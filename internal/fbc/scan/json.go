package scan

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// readJSON reads a stream of JSON objects with the splitter. errNotPlain means that decodeJSON must continue at
// s.start.
func readJSON(s *splitter, v visit) error {
	for {
		if err := s.next(); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if err := v.object(s.out, Position{Offset: s.start}); err != nil {
			return err
		}
	}
}

// decodeJSON reads a stream of JSON values with encoding/json, which gives the error messages. src begins at offset
// base of the file; first reports that no blob was read before.
func decodeJSON(src *boundedReader, base int64, first bool, v visit) error {
	dec := json.NewDecoder(src)
	var raw json.RawMessage
	var compact bytes.Buffer
	for ; ; first = false {
		src.read = 0
		start := base + dec.InputOffset()
		if err := dec.Decode(&raw); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return jsonError(err, base, start, first)
		}
		if int64(len(raw)) > src.max {
			return &offsetError{offset: start, err: src.errTooLarge()}
		}
		compact.Reset()
		if err := json.Compact(&compact, raw); err != nil {
			return &offsetError{offset: start, err: err}
		}
		if err := v.object(compact.Bytes(), Position{Offset: start}); err != nil {
			return err
		}
	}
}

// jsonError adds the offset to an error of a decoder: its own for a syntax error, else the start of the blob. The
// input of the decoder begins at offset base of the file.
func jsonError(err error, base, start int64, first bool) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) { // its Offset counts the wrong byte
		return &offsetError{offset: base + syntax.Offset - 1, err: err, firstSyntax: first}
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return &offsetError{offset: start, err: errors.New("the file ends in the middle of this blob")}
	}
	return &offsetError{offset: start, err: err}
}
