//go:build !linux

package main

import "syscall"

// childAttributes puts a child in a process group of its own. A child outlives a killed parent here.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
