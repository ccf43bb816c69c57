package content

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
	"time"
)

// maxLine limits a line of a feed. The longest one names the changed packages.
const maxLine = 16 << 20

// events reads server-sent events (WHATWG HTML, section 9.2.6). Lines end in LF or CR LF.
type events struct {
	lines *bufio.Scanner
	id    string        // of the last event that had one
	retry time.Duration // how long to wait before a reconnect, as set by the server; 0: not set
}

func newEvents(r io.Reader) *events {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	return &events{lines: lines}
}

// next returns the type and the data of the next event that has data. The data is valid until the next call. The error at
// the end of the stream is io.EOF; an incomplete event is dropped.
func (e *events) next() (kind string, data []byte, err error) {
	id := e.id
	for e.lines.Scan() {
		line := e.lines.Bytes()
		if len(line) == 0 {
			e.id = id
			if data != nil {
				return kind, data[:len(data)-1], nil
			}
			kind = ""
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
				id = string(value)
			}
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
				e.retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
	if err := e.lines.Err(); err != nil {
		return "", nil, err
	}
	return "", nil, io.EOF
}
