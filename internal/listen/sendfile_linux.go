package listen

import (
	"errors"
	"syscall"
)

// maxSendfile is the size in bytes that one sendfile call offers to the kernel: what fits into the pipe inside sendfile (16
// pages) wherever in a page it begins. Of a larger part the kernel would hold the beginning back, up to 200 ms.
const maxSendfile = 60 << 10

// sendHeader sends the held header. The kernel may put it into one packet with the next bytes (MSG_MORE in send(2)).
func (c *conn) sendHeader() error {
	header := c.held
	if header == nil {
		return nil
	}
	c.held = nil
	defer c.table.putPiece(header)
	_, err := c.send(func() (sent int64, err error) {
		var failed error
		err = c.raw.Write(func(socket uintptr) bool {
			for failed == nil && sent < int64(len(header)) {
				n, err := syscall.SendmsgN(int(socket), header[sent:], nil, nil, syscall.MSG_MORE|syscall.MSG_NOSIGNAL)
				switch {
				case errors.Is(err, syscall.EAGAIN):
					return false
				case errors.Is(err, syscall.EINTR):
				case err != nil:
					failed = err
				default:
					sent += int64(n)
				}
			}
			return true
		})
		return sent, errors.Join(failed, err)
	})
	return err
}

// sendFile sends a part of a file. Unlike package net it does not read at the position of the file, so several responses can
// share the file.
func (c *conn) sendFile(part filePart) (sent int64, err error) {
	from, err := part.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	for part.limit.N > 0 {
		n, err := c.send(func() (int64, error) { return sendfilePiece(c.raw, from, part.offset, part.limit.N) })
		sent += n
		err = errors.Join(err, part.advance(n))
		if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSYS) { // the file system does not support sendfile
			n, err := c.copyFrom(part.limit)
			return sent + n, err
		}
		if err != nil || n == 0 { // the end of the file
			return sent, err
		}
	}
	return sent, nil
}

// sendfilePiece sends a piece or all that is left, and more if the kernel accepts more at once. At the end of the file it
// sends less.
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

// notsentLowat is TCP_NOTSENT_LOWAT of linux/tcp.h, which package syscall lacks; see tcp(7).
const notsentLowat = 25

// limitUnsent makes the kernel buffer at most n unsent bytes. Without it only the detection of slow clients
// suffers, so errors are ignored.
func limitUnsent(c syscall.RawConn, n int) {
	_ = c.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, notsentLowat, n)
	})
}
