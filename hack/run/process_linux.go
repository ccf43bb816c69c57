package main

import "syscall"

// childAttributes gives a child its own process group, and makes the kernel kill it when this process dies.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
