package listen

import (
	"errors"
	"io"
	"os"
)

// filePart is a part of a file that a reply consists of.
type filePart struct {
	file         *os.File
	offset, size int64
	advance      func(n int64) error // notes at the reader it came from that so much was read
}

// filePartOf tells which part of a file a reader gives: a file, an io.SectionReader of one, or an io.LimitedReader of either, as
// io.CopyN makes them. ok is false for any other.
func filePartOf(src io.Reader) (part filePart, ok bool) {
	limit, limited := src.(*io.LimitedReader)
	if limited {
		src = limit.R
	}
	seeker, ok := src.(io.Seeker)
	if !ok {
		return part, false
	}
	var start, end int64
	switch r := src.(type) {
	case *io.SectionReader:
		at, offset, size := r.Outer()
		part.file, ok = at.(*os.File)
		start, end = offset, size
	case *os.File:
		info, err := r.Stat()
		part.file, ok = r, err == nil && info.Mode().IsRegular()
		if ok {
			end = info.Size()
		}
	default:
		ok = false
	}
	if !ok {
		return part, false
	}
	position, err := seeker.Seek(0, io.SeekCurrent)
	if err != nil {
		return part, false
	}
	part.offset, part.size = start+position, max(end-position, 0)
	if limited {
		part.size = min(part.size, max(limit.N, 0))
	}
	part.advance = func(n int64) error {
		if limited {
			limit.N -= n
		}
		_, err := seeker.Seek(n, io.SeekCurrent)
		return err
	}
	return part, true
}

// ReadFrom sends a part of a file by sendfile: the kernel moves the bytes, and they never enter this process. What is no more than a
// piece is quicker read, and written together with the header.
func (c *conn) ReadFrom(src io.Reader) (sent int64, err error) {
	part, ok := filePartOf(src)
	if !ok {
		return c.copyFrom(src) // the deadline is for the client alone, not for a source that takes its time
	}
	if part.size <= pieceSize-int64(len(c.held)) {
		sent, err = c.sendRead(part)
	} else {
		sent, err = c.sendFile(part)
	}
	return sent, errors.Join(err, part.advance(sent))
}

// sendRead sends a part of a file that goes into one piece with what is held.
func (c *conn) sendRead(part filePart) (int64, error) {
	held := len(c.held)
	piece := c.hold(nil)[:held+int(part.size)]
	n, err := part.file.ReadAt(piece[held:], part.offset)
	c.held = piece[:held+n]
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	return c.sendHeld(held)
}

// copyFrom sends what is no file.
func (c *conn) copyFrom(src io.Reader) (int64, error) {
	buf := c.table.piece()
	defer c.table.putPiece(buf)
	return io.CopyBuffer(writeOnly{c}, src, buf)
}

// writeOnly hides ReadFrom from io.Copy.
type writeOnly struct{ io.Writer }
