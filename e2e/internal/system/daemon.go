package system

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// DaemonArgs are the arguments of a catalogd on a data directory, that listens at three addresses (host:port).
func DaemonArgs(kubeconfig, dataDir, content, health, metrics string) []string {
	return []string{
		"--kubeconfig", kubeconfig, "--namespace", Namespace, "--data-dir", dataDir,
		"--content-bind-address", content, "--external-url", "http://" + content,
		"--health-bind-address", health, "--metrics-bind-address", metrics,
		"--log-format", "text",
	}
}

// StartDaemon runs the catalogd that CATALOGD_BIN names and returns at once: what it must answer by when is for the test to say. The
// channel is closed when the process has ended, with its exit code in cmd.ProcessState; it does not outlive the test's.
func StartDaemon(args []string, output io.Writer) (cmd *exec.Cmd, exited <-chan struct{}, err error) {
	return StartProgram(os.Getenv("CATALOGD_BIN"), args, output)
}

// StartProgram is StartDaemon for another catalogd.
func StartProgram(program string, args []string, output io.Writer) (cmd *exec.Cmd, exited <-chan struct{}, err error) {
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

// FreeAddress returns a loopback address whose port was free a moment ago. It is below those that the kernel gives to clients, so
// that none of their connections takes it while nobody listens.
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
