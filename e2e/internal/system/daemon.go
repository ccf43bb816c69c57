package system

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os/exec"
	"syscall"
	"testing"
)

// DaemonArgs are the arguments of a catalogd with a data directory and three addresses (host:port) to listen on.
func DaemonArgs(kubeconfig, dataDir, content, health, metrics string) []string {
	return []string{
		"--kubeconfig", kubeconfig, "--namespace", Namespace, "--data-dir", dataDir,
		"--content-bind-address", content, "--external-url", "http://" + content,
		"--health-bind-address", health, "--metrics-bind-address", metrics,
		"--log-format", "text",
	}
}

// StartDaemon runs a catalogd program, and returns before it is ready. The channel is closed when the process has
// exited; cmd.ProcessState then has the exit code. The process does not outlive the process of the tests.
func StartDaemon(program string, args []string, output io.Writer) (cmd *exec.Cmd, exited <-chan struct{}, err error) {
	cmd = exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("starting catalogd: %w", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait() // the exit code is read from ProcessState
	}()
	return cmd, done, nil
}

// FreeAddress returns a loopback address with a free port, below the range of ephemeral ports, so that no outgoing
// connection takes it before it is used.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000))
		if listener, err := net.Listen("tcp", address); err == nil {
			if err := listener.Close(); err != nil {
				t.Fatal(err)
			}
			return address
		}
	}
	t.Fatal("no port is free")
	return ""
}
