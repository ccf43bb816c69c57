package system

import (
	"fmt"
	"io"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"syscall"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/operator-catalogs/catalogd/internal/testing/process"
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
	addresses, err := process.FreeAddresses(1)
	if err != nil {
		t.Fatal(err)
	}
	return addresses[0]
}

// ForwardTo returns a handler that forwards requests to the API server of a kubeconfig, with the rights of its
// user.
func ForwardTo(kubeconfig string) (*httputil.ReverseProxy, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", kubeconfig, err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	return &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // watches send each event immediately
	}, nil
}

// WriteKubeconfig writes the kubeconfig of an API server that needs no credentials.
func WriteKubeconfig(file, server string) error {
	return clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"e2e": {Server: server}},
		Contexts:       map[string]*clientcmdapi.Context{"e2e": {Cluster: "e2e"}},
		CurrentContext: "e2e",
	}, file)
}
