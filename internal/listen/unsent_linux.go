package listen

import "syscall"

// notsentLowat is TCP_NOTSENT_LOWAT of linux/tcp.h, which package syscall does not have; see tcp(7).
const notsentLowat = 25

// limitUnsent makes the kernel take no more of a reply than n bytes beyond what it could send. Without it replies are as right,
// and clients that become slow in the middle of one are cut at a higher speed; so an error does not matter.
func limitUnsent(c syscall.RawConn, n int) {
	_ = c.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, notsentLowat, n)
	})
}
