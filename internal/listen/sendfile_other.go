//go:build !linux

package listen

import "io"

// sendFile sends what is held and then a part of a file.
func (c *conn) sendFile(part filePart) (int64, error) {
	return c.copyFrom(io.NewSectionReader(part.file, part.offset, part.size))
}
