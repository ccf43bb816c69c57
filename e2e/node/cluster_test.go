package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	root     = "../.." // of the repository
	registry = "10.99.0.1:5000"
)

// cluster is a cluster of hack/node/up.sh. Its addresses are in a network of their own, which transport and kubectl
// reach.
type cluster struct {
	client.WithWatch // an administrator's
	kubernetes       *kubernetes.Clientset
	dir              string
	up               *exec.Cmd
	ended            chan error
}

// startCluster waits until Pods can be created.
func startCluster(ctx context.Context) (_ *cluster, err error) {
	dir, err := os.MkdirTemp("", "catalogd-node-")
	if err != nil {
		return nil, err
	}
	c := &cluster{dir: dir, up: exec.Command(filepath.Join(root, "hack", "node", "up.sh"), dir), ended: make(chan error, 1)}
	c.up.Stdout, c.up.Stderr = os.Stderr, os.Stderr
	c.up.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := c.start(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.stop())
		}
	}()
	for {
		if _, err := os.Stat(filepath.Join(dir, "up")); err == nil {
			break
		}
		select {
		case err := <-c.ended:
			c.ended <- err
			return nil, fmt.Errorf("hack/node/up.sh has ended: %w", err)
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for hack/node/up.sh: %w", ctx.Err())
		case <-time.After(checkGap):
		}
	}
	return c, c.connect()
}

// start locks the thread for as long as the script runs: Linux sends the parent death signal when the thread that
// started a child exits.
func (c *cluster) start() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.up.Start()
		started <- err
		if err == nil {
			c.ended <- c.up.Wait()
		}
	}()
	return <-started
}

// stop ends the cluster and deletes its directory, unless E2E_KEEP is set.
func (c *cluster) stop() error {
	if err := c.up.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-c.ended
	if os.Getenv("E2E_KEEP") != "" {
		fmt.Fprintln(os.Stderr, "the cluster's files are in", c.dir)
		return nil
	}
	return os.RemoveAll(c.dir)
}

func (c *cluster) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(c.dir, "kubeconfig"))
	if err != nil {
		return err
	}
	config.Dial, config.QPS = c.dial, -1
	if c.kubernetes, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	c.WithWatch, err = client.NewWithWatch(config, client.Options{})
	return err
}

// dial connects from within node1. A socket belongs to the network namespace in which its thread created it.
func (c *cluster) dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked, so that the thread in another network exits with the goroutine
		if err = c.enterNode1(); err == nil {
			conn, err = (&net.Dialer{FallbackDelay: -1, Timeout: dialTimeout}).DialContext(ctx, network, address)
		}
	}()
	<-done
	return conn, err
}

func (c *cluster) enterNode1() error {
	network, err := c.namespace("node1", "net")
	if err != nil {
		return err
	}
	file, err := os.Open(network)
	if err != nil {
		return err
	}
	defer file.Close()
	return unix.Setns(int(file.Fd()), unix.CLONE_NEWNET)
}

// namespace returns the file of a namespace of a node.
func (c *cluster) namespace(node, kind string) (string, error) {
	pid, err := os.ReadFile(filepath.Join(c.dir, node, "pid"))
	return filepath.Join("/proc", strings.TrimSpace(string(pid)), "ns", kind), err
}

// transport is for clients of addresses in the cluster's network.
func (c *cluster) transport() *http.Transport {
	return &http.Transport{DialContext: c.dial, DisableCompression: true}
}

// kubectl runs the kubectl of the cluster and returns its output.
func (c *cluster) kubectl(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(c.dir, "kubectl"), args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}

// dialTo connects to a fixed address, independent of the URL.
func dialTo(
	dial func(context.Context, string, string) (net.Conn, error), address string,
) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) { return dial(ctx, network, address) }
}
