package listen

import (
	"errors"
	"io"
	"net/http"
	"os"
)

// fileResponse is a response of HTTP/1.1 without TLS. It makes the header leave in one write with the beginning of a file;
// net/http alone makes two or three writes, and half as much work again for a small response.
type fileResponse struct {
	http.ResponseWriter
	conn *conn
}

// ReadFrom is called by io.Copy. It leaves an incomplete header to net/http, which reads the beginning of src to complete it.
func (w *fileResponse) ReadFrom(src io.Reader) (int64, error) {
	if _, ok := filePartOf(src); !ok || w.Header().Get("Content-Length") == "" || w.Header().Get("Content-Type") == "" {
		return io.Copy(w.ResponseWriter, src)
	}
	w.conn.holding = true
	err := http.NewResponseController(w.ResponseWriter).Flush()
	w.conn.holding = false
	var n int64
	if err == nil {
		n, err = io.Copy(w.ResponseWriter, src)
	}
	return n, errors.Join(err, w.conn.sendHeld())
}

// Flush implements http.Flusher.
func (w *fileResponse) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

// Unwrap is called by http.ResponseController.
func (w *fileResponse) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// hold appends p to what sendHeld sends.
func (c *conn) hold(p []byte) {
	if c.held == nil {
		c.held = c.table.piece()[:0]
	}
	c.held = append(c.held, p...)
}

// sendHeld sends the held bytes, if any.
func (c *conn) sendHeld() error {
	held := c.held
	if held == nil {
		return nil
	}
	c.held = nil
	defer c.table.putPiece(held)
	_, err := c.writePieces(held)
	return err
}

// ReadFrom sends a part of a file. A part of at most a piece is copied and sent together with a held header. A larger one is
// sent with sendfile after the header, so its bytes do not enter this process. net/http calls ReadFrom.
func (c *conn) ReadFrom(src io.Reader) (int64, error) {
	part, ok := filePartOf(src)
	if !ok {
		return c.copyFrom(src)
	}
	header := len(c.held)
	if part.limit.N > int64(pieceSize-header) {
		if err := c.sendHeader(); err != nil {
			return 0, err
		}
		return c.sendFile(part)
	}
	c.hold(nil)
	n, err := io.ReadFull(src, c.held[header:header+int(part.limit.N)])
	c.held = c.held[:header+n]
	return int64(n), errors.Join(err, c.sendHeld())
}

// copyFrom sends src with Write. The deadline applies to the client only, not to src.
func (c *conn) copyFrom(src io.Reader) (int64, error) {
	buf := c.table.piece()
	defer c.table.putPiece(buf)
	return io.CopyBuffer(writeOnly{c}, src, buf)
}

// writeOnly hides ReadFrom from io.Copy.
type writeOnly struct{ io.Writer }

// filePart is a part of a file as io.CopyN reads it: of the file, or of a section of it that several responses share.
type filePart struct {
	limit  *io.LimitedReader
	seeker io.Seeker // limit.R
	file   *os.File
	offset int64 // in the file
}

// filePartOf reports whether src is a part of a file, and which one.
func filePartOf(src io.Reader) (part filePart, ok bool) {
	part.limit, ok = src.(*io.LimitedReader)
	if !ok {
		return part, false
	}
	start := int64(0)
	switch r := part.limit.R.(type) {
	case *io.SectionReader:
		at, from, size := r.Outer()
		part.file, ok = at.(*os.File)
		part.seeker, start = r, from
		if position, err := r.Seek(0, io.SeekCurrent); err != nil || part.limit.N > size-position {
			return part, false
		}
	case *os.File:
		part.file, part.seeker = r, r
	default:
		return part, false
	}
	if !ok {
		return part, false
	}
	position, err := part.seeker.Seek(0, io.SeekCurrent)
	part.offset = start + position
	return part, err == nil
}

// advance moves the position of the part past n sent bytes.
func (p *filePart) advance(n int64) error {
	p.offset += n
	p.limit.N -= n
	_, err := p.seeker.Seek(n, io.SeekCurrent)
	return err
}
