//go:build !linux

package listen

import "syscall"

// limitUnsent is for Linux, where catalogd runs.
func limitUnsent(syscall.RawConn, int) {}
