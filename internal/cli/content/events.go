package content

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
	"time"
)

// maxLine is how long a line of a feed may be: that of a change names each package that differs.
const maxLine = 16 << 20

// events reads server-sent events (WHATWG HTML, section 9.2.6).
type events struct {
	lines *bufio.Scanner
	id    string        // of the last event that had one
	retry time.Duration // how long the server asks to wait before coming again; 0: it did not say
}

func newEvents(r io.Reader) *events {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	lines.Split(splitLines())
	return &events{lines: lines}
}

// splitLines ends a line at LF, CR or both, without waiting for what follows a CR. A line that the stream breaks off in is dropped.
func splitLines() bufio.SplitFunc {
	afterCR := false
	return func(data []byte, atEOF bool) (int, []byte, error) {
		start := 0
		if afterCR && len(data) > 0 && data[0] == '\n' {
			start = 1
		}
		length := bytes.IndexAny(data[start:], "\r\n")
		if length < 0 {
			if atEOF {
				return len(data), nil, nil
			}
			return 0, nil, nil
		}
		end := start + length
		afterCR = data[end] == '\r'
		return end + 1, data[start:end], nil
	}
}

// next returns the kind and the data of the next event that has data. The data is good until the next call. The error is io.EOF at the end
// of the stream; an event that it breaks off in is dropped.
func (e *events) next() (kind string, data []byte, err error) {
	var id *string
	for e.lines.Scan() {
		line := e.lines.Bytes()
		if len(line) == 0 {
			if id != nil {
				e.id = *id
			}
			if data != nil {
				return kind, data[:len(data)-1], nil
			}
			kind, id = "", nil
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":")) // without a name it is a comment
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "event":
			kind = string(value)
		case "data":
			if len(data)+len(value) >= maxLine {
				return "", nil, bufio.ErrTooLong
			}
			data = append(append(data, value...), '\n')
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				text := string(value)
				id = &text
			}
		case "retry":
			e.setRetry(string(value))
		}
	}
	if err := e.lines.Err(); err != nil {
		return "", nil, err
	}
	return "", nil, io.EOF
}

func (e *events) setRetry(value string) {
	if ms, err := strconv.ParseUint(value, 10, 31); err == nil {
		e.retry = time.Duration(ms) * time.Millisecond
	}
}
