package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"github.com/operator-catalogs/catalogd/internal/testing/process"
)

// stopGrace is how long a program may take to stop.
const stopGrace = 20 * time.Second

// waitListening waits until a child accepts connections.
func waitListening(ctx context.Context, c *process.Child, address string) error {
	return process.Every(ctx, 20*time.Millisecond, func() (bool, error) {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return false, c.Ended()
		}
		return true, conn.Close()
	})
}

// cpuTime returns the processor time of a process and its descendants, such as nginx's workers.
func cpuTime(pid int) (time.Duration, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0, err
	}
	stat, err := p.Stat()
	if err != nil {
		return 0, err
	}
	sum := time.Duration(stat.CPUTime() * float64(time.Second))
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid)) // missing on some kernels
	for field := range strings.FieldsSeq(string(children)) {
		if n, err := strconv.Atoi(field); err == nil {
			used, err := cpuTime(n)
			if err != nil {
				return 0, err
			}
			sum += used
		}
	}
	return sum, nil
}

// peakMemory returns the peak memory of a process in MiB (VmHWM of proc_pid_status(5)).
func peakMemory(pid int) (float64, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0, err
	}
	status, err := p.NewStatus()
	return float64(status.VmHWM) / (1 << 20), err
}

// settle waits until a process has used less than 5 % of a processor for a second, so that its background work is
// done.
func settle(ctx context.Context, pid int) error {
	const second, little = time.Second, 50 * time.Millisecond
	last, err := cpuTime(pid)
	if err != nil {
		return err
	}
	first := true
	return process.Every(ctx, second, func() (bool, error) {
		if first {
			first = false
			return false, nil
		}
		used, err := cpuTime(pid)
		quiet := used-last < little
		last = used
		return quiet, err
	})
}
