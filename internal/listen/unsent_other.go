//go:build !linux

package listen

import "net"

// limitUnsent is for Linux, where catalogd runs.
func limitUnsent(*net.TCPConn, int) {}
