package listen

import (
	"errors"
	"io"
	"syscall"
)

// maxSendfile is how much the kernel is offered at a time: what goes through the pipe inside of sendfile (16 pages) at once, wherever in
// a page it begins. Of more, the kernel would hold the first part back for the second, up to 200 ms; and with unsentBytes of it
// held back the socket takes no second.
const maxSendfile = 60 << 10

// sendFile sends what is held and then a part of a file. Package net's own sendfile reads from a file's position, so a file that several
// replies share would have to be opened for each.
func (c *conn) sendFile(part filePart) (sent int64, err error) {
	from, err := part.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	if len(c.held) > 0 {
		if err := c.sendWithMore(); err != nil {
			return 0, err
		}
	}
	for sent < part.size {
		n, err := c.send(func() (int64, error) { return sendfilePiece(c.raw, from, part.offset+sent, part.size-sent) })
		sent += n
		if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSYS) { // the file system cannot
			n, err := c.copyFrom(io.NewSectionReader(part.file, part.offset+sent, part.size-sent))
			return sent + n, err
		}
		if err != nil || n == 0 { // the end of the file
			return sent, err
		}
	}
	return sent, nil
}

// sendfilePiece sends a piece, or all that is left if that is less, and more if the kernel takes it at once. It sends less at the end of the file.
func sendfilePiece(to, from syscall.RawConn, offset, left int64) (sent int64, err error) {
	var failed error
	err = from.Control(func(source uintptr) {
		err := to.Write(func(socket uintptr) bool {
			for sent < min(left, pieceSize) {
				n, err := syscall.Sendfile(int(socket), int(source), &offset, int(min(left-sent, maxSendfile)))
				switch {
				case errors.Is(err, syscall.EINTR):
				case errors.Is(err, syscall.EAGAIN):
					return false
				case err != nil || n == 0:
					failed = err
					return true
				default:
					sent += int64(n)
				}
			}
			return true
		})
		failed = errors.Join(failed, err)
	})
	return sent, errors.Join(failed, err)
}

// sendWithMore sends what is held so that the kernel may put it into one packet with what follows.
func (c *conn) sendWithMore() error {
	piece := c.held
	c.held = nil
	defer c.table.putPiece(piece)
	_, err := c.send(func() (int64, error) {
		sent := 0
		var failed error
		err := c.raw.Write(func(socket uintptr) bool {
			for sent < len(piece) {
				n, err := syscall.SendmsgN(int(socket), piece[sent:], nil, nil, syscall.MSG_MORE|syscall.MSG_NOSIGNAL)
				switch {
				case errors.Is(err, syscall.EINTR):
				case errors.Is(err, syscall.EAGAIN):
					return false
				case err != nil:
					failed = err
					return true
				default:
					sent += n
				}
			}
			return true
		})
		return int64(sent), errors.Join(failed, err)
	})
	return err
}
