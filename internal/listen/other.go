//go:build !linux

package listen

import "syscall"

// catalogd runs on Linux; these let it build elsewhere.

func (c *conn) sendHeader() error { return c.sendHeld() }

func (c *conn) sendFile(part filePart) (int64, error) { return c.copyFrom(part.limit) }

func limitUnsent(syscall.RawConn, int) {}
