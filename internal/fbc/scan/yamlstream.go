package scan

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// maxDeclined limits the documents of a stream for which the YAML library is set up separately, which takes
// longer than reading a short one. After that, the library reads the rest of the stream.
const maxDeclined = 100

// readYAML reads a stream of YAML documents. Each is one blob; documents without content are skipped.
//
// There are two paths. yamlText converts the usual syntax of catalogs directly. It declines everything else,
// including errors. The YAML library reads those documents and gives the error messages; it is 10 times slower
// and takes 160 times the document in memory.
func readYAML(r io.Reader, src *boundedReader, v visit) error {
	if src.max > maxYAMLBytes {
		src.max, src.remedy = maxYAMLBytes, "limit of YAML: write it as JSON"
	}
	s := yamlStream{r: r, src: src}
	var t yamlText
	w := yamlWriter{src: src}
	for declined := 0; ; {
		text, err := s.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if errors.Is(err, errUnsplit) {
			return readYAMLNodes(s.rest(), src, s.held(), v)
		}
		if err != nil {
			return err
		}
		start, ok := t.convert(text)
		line, object := 1+bytes.Count(text[:start], newline), t.out
		if !ok || int64(len(object)) > src.max {
			if line, ok = w.only(text); !ok || declined == maxDeclined {
				return readYAMLNodes(s.rest(), src, s.held(), v)
			}
			declined++
			object = w.out
		}
		if len(object) == 0 {
			continue
		}
		if err := v.object(object, Position{Line: s.line + line}); err != nil {
			return err
		}
	}
}

// readYAMLNodes reads a stream with the YAML library. held bytes of its first document are already read from
// src.
func readYAMLNodes(r io.Reader, src *boundedReader, held int64, v visit) error {
	tags := newTagReader(r)
	dec := yaml.NewDecoder(tags)
	w := yamlWriter{src: src, tags: tags}
	for {
		src.read = 0
		src.read, held = held, 0
		var doc yaml.Node
		err := decodeYAML(dec, &doc)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if isNull(&doc) {
			continue
		}
		tags.forget(doc.Content[0].Line)
		w.reset()
		if err := w.write(&doc, 0); err != nil {
			return err
		}
		if int64(len(w.out)) > src.max {
			return &Error{Line: doc.Content[0].Line, Err: src.errTooLarge()}
		}
		if err := v.object(w.out, Position{Line: doc.Content[0].Line}); err != nil {
			return err
		}
	}
}

// only writes the only document of a text, nothing if that has no content, and returns the line where it begins.
// It is not ok on an error, or if later documents may depend on this one: anchors stay valid in the library.
func (w *yamlWriter) only(text []byte) (line int, ok bool) {
	w.reset()
	w.tags = newTagReader(bytes.NewReader(text))
	dec := yaml.NewDecoder(w.tags)
	var doc, more yaml.Node
	err := decodeYAML(dec, &doc)
	if errors.Is(err, io.EOF) {
		return 0, true
	}
	if err != nil || hasAnchor(&doc) {
		return 0, false
	}
	if err := decodeYAML(dec, &more); !errors.Is(err, io.EOF) {
		return 0, false
	}
	if isNull(&doc) {
		return 0, true
	}
	return doc.Content[0].Line, w.write(&doc, 0) == nil && int64(len(w.out)) <= w.src.max
}

func isNull(doc *yaml.Node) bool {
	return doc.Kind == 0 || (doc.Kind == yaml.DocumentNode && doc.Content[0].ShortTag() == "!!null")
}

func hasAnchor(n *yaml.Node) bool {
	if n.Anchor != "" {
		return true
	}
	for _, child := range n.Content {
		if hasAnchor(child) {
			return true
		}
	}
	return false
}

var newline = []byte("\n")

// errUnsplit means that the YAML library must read the rest of the stream.
var errUnsplit = errors.New("the separators alone do not delimit the documents")

// yamlStream splits a stream of YAML documents at its separators: the lines that begin with "---" and a blank.
// The library accepts such a line only as a separator: a block scalar is indented, a plain one ends there, and
// it is an error within quotes or brackets. That needs line breaks of "\n" only and valid characters. At other
// input, or at a document that is too large, splitting ends with errUnsplit.
type yamlStream struct {
	r   io.Reader
	src *boundedReader // underlies r, and has the limit

	buf        []byte // the document from start to end, and bytes beyond it
	start, end int
	line       int  // number of lines before the document
	scanned    int  // there is no separator in buf[end:scanned]
	checked    int  // buf[:checked] has only valid characters
	unfit      bool // an invalid character follows
	eof        bool
}

// next returns the text of the next document, from its separator up to the next one. It is valid until the next
// call. The error is io.EOF, errUnsplit, or that of the reader.
func (s *yamlStream) next() ([]byte, error) {
	s.line += bytes.Count(s.buf[s.start:s.end], newline)
	s.start = s.end
	s.src.read = 0
	for {
		if s.unfit {
			return nil, errUnsplit
		}
		if end := s.separator(); end > 0 {
			s.end = end
			return s.buf[s.start:end], nil
		}
		if s.eof {
			if s.end = len(s.buf); s.end == s.start {
				return nil, io.EOF
			}
			return s.buf[s.start:], nil
		}
		if int64(len(s.buf)-s.start) > s.src.max {
			return nil, errUnsplit
		}
		if err := s.fill(); err != nil {
			return nil, err
		}
	}
}

// separator returns the position of the next separator, 0 if it is not known yet.
func (s *yamlStream) separator() int {
	for {
		i := bytes.Index(s.buf[s.scanned:], []byte("\n---"))
		if i < 0 {
			s.scanned = max(s.scanned, len(s.buf)-len("\n--"))
			return 0
		}
		at := s.scanned + i + 1
		s.scanned = at - 1
		after := at + len("---")
		if after == len(s.buf) && !s.eof {
			return 0
		}
		s.scanned = after
		if after == len(s.buf) || isBlank(s.buf[after]) {
			return at
		}
	}
}

// yamlReadSize is the size of one read. A document may exceed its limit by that much.
const yamlReadSize = sniffSize

// fill reads more of the stream. If there is no room, it moves the document to the start of the buffer.
func (s *yamlStream) fill() error {
	if cap(s.buf)-len(s.buf) < yamlReadSize {
		have := len(s.buf) - s.start
		to := s.buf[:0]
		if cap(s.buf) < 2*have+yamlReadSize {
			to = make([]byte, 0, 2*have+yamlReadSize)
		}
		s.buf = append(to, s.buf[s.start:]...)
		s.scanned, s.checked = s.scanned-s.start, s.checked-s.start
		s.start, s.end = 0, 0
	}
	n, err := s.r.Read(s.buf[len(s.buf) : len(s.buf)+yamlReadSize])
	s.buf = s.buf[:len(s.buf)+n]
	if errors.Is(err, io.EOF) {
		s.eof, err = true, nil
	}
	s.check()
	return err
}

// check looks for invalid characters, and for byte order marks and line breaks other than "\n", which the library interprets.
func (s *yamlStream) check() {
	for s.checked < len(s.buf) {
		s.checked = skipPrintable(s.buf, s.checked)
		if s.checked == len(s.buf) {
			return
		}
		c := s.buf[s.checked]
		if c < utf8.RuneSelf {
			if yamlClass[c]&classBanned != 0 {
				s.unfit = true
				return
			}
			s.checked++
			continue
		}
		if !s.eof && !utf8.FullRune(s.buf[s.checked:]) {
			return
		}
		r, size := utf8.DecodeRune(s.buf[s.checked:])
		if r < 0xa0 || r == 0x2028 || r == 0x2029 || r == 0xfeff || r == 0xfffe || r == 0xffff || size == 1 {
			s.unfit = true
			return
		}
		s.checked += size
	}
}

// skipPrintable skips most bytes at or after i that are printable ASCII or "\n", eight at a time.
func skipPrintable(b []byte, i int) int {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		low := w &^ high // so that no sum carries into the next byte
		printable := low + ones*(0x80-' ')
		newline := ^((low ^ ones*'\n') + ones*0x7f)
		notDelete := (low ^ ones*0x7f) + ones*0x7f
		if (printable|newline)&notDelete&^w&high != high {
			break
		}
	}
	return i
}

// rest returns the stream from the start of the document. Empty lines replace the lines before it, so that line
// numbers stay correct.
func (s *yamlStream) rest() io.Reader {
	lines := emptyLines(s.line)
	return io.MultiReader(&lines, bytes.NewReader(s.buf[s.start:]), s.r)
}

// held returns the number of bytes of rest that count as read for the document.
func (s *yamlStream) held() int64 {
	return max(0, int64(len(s.buf)-s.start-yamlReadSize))
}

// emptyLines reads as that many empty lines.
type emptyLines int

func (e *emptyLines) Read(p []byte) (int, error) {
	if *e == 0 {
		return 0, io.EOF
	}
	n := min(len(p), int(*e))
	for i := range n {
		p[i] = '\n'
	}
	*e -= emptyLines(n)
	return n, nil
}
