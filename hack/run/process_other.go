//go:build !linux

package main

import "syscall"

// childAttributes gives a child its own process group. A child outlives a killed parent here.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
