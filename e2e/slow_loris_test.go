package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/operator-catalogs/catalogd/internal/testing/must"
)

const (
	lorises     = 10_000
	lorisRest   = 5 * time.Second     // mean pause of a closed connection before it reconnects
	memoryBound = 256 << 20           // additional memory of catalogd during a flood; docs/performance.md states it
	lorisTarget = "E2E_LORIS_ADDRESS" // makes the test binary the attacker
)

// The attacker is a separate process of this binary, so that its CPU use can be limited and is not attributed to
// catalogd.
func init() {
	if address := os.Getenv(lorisTarget); address != "" {
		attack(address)
		os.Exit(0)
	}
}

// TestSlowLoris requests metas over new connections and over a persistent one, first without load, then while
// 10,000 connections last as long as they can: half of them send one byte of a header per second, a quarter one
// byte of a body, and a quarter read /all as slowly. It fails if a request fails or if memory exceeds its bound.
// Latencies depend on the machine, so they are only logged; docs/performance.md has them.
func TestSlowLoris(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes most of a minute")
	}
	var limit syscall.Rlimit
	must.Succeed(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	if limit.Max < lorises+1000 {
		t.Skipf("the attacker needs %d open files, and may have %d (ulimit -Hn)", lorises+1000, limit.Max)
	}
	w := newWorld(t, shared)
	ref, digest := w.registry.push(t, "sample", catalogImage(t, largeCatalog(t)))
	w.createCatalog(t, "sample", ref, nil)
	w.waitReady(t, "sample", digest)
	url := w.contentURL("sample", "/api/v1/metas?schema=olm.package")

	peace := measure(t, url)
	before := w.memory(t, "VmRSS")
	attacker := startAttack(t, w.content)
	attacker.waitUntilHeld(t)
	war := measure(t, url)
	opened := attacker.stop(t)

	t.Logf("in peace: %s", peace)
	t.Logf("under attack: %s", war)
	t.Logf("p99 of new connections %.1f times, of a kept one %.1f times; %d connections opened by %d attackers",
		ratio(war.fresh, peace.fresh), ratio(war.kept, peace.kept), opened, lorises)
	peak := w.memory(t, "VmHWM")
	t.Logf("memory: %d MiB before, at most %d MiB", before>>20, peak>>20)
	if peak > before+memoryBound {
		t.Errorf("the memory grew from %d MiB to %d MiB, by more than %d MiB", before>>20, peak>>20, memoryBound>>20)
	}
}

// latencies are the sorted latencies of a client.
type latencies struct{ fresh, kept []time.Duration }

func (l latencies) String() string {
	return fmt.Sprintf("new connections p50 %s, p99 %s; kept connection p50 %s, p99 %s",
		percentile(l.fresh, 50), percentile(l.fresh, 99), percentile(l.kept, 50), percentile(l.kept, 99))
}

func percentile(sorted []time.Duration, p int) time.Duration {
	return sorted[(len(sorted)-1)*p/100].Round(10 * time.Microsecond)
}

func ratio(a, b []time.Duration) float64 {
	return float64(percentile(a, 99)) / float64(percentile(b, 99))
}

// measure sends 20 requests of each sort per second, in turn, for 15 seconds.
func measure(t *testing.T, url string) latencies {
	t.Helper()
	var l latencies
	kept := &http.Client{Transport: &http.Transport{}, Timeout: patience}
	defer kept.CloseIdleConnections()
	fresh := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range 300 {
		<-tick.C
		l.fresh = append(l.fresh, timeGet(t, fresh, url))
		l.kept = append(l.kept, timeGet(t, kept, url))
	}
	slices.Sort(l.fresh)
	slices.Sort(l.kept)
	return l
}

func timeGet(t *testing.T, client *http.Client, url string) time.Duration {
	t.Helper()
	begun := time.Now()
	response, err := client.Get(url)
	if err != nil {
		t.Errorf("the client that does no harm: %v", err)
		return time.Since(begun)
	}
	defer response.Body.Close()
	n, err := io.Copy(io.Discard, response.Body)
	if err != nil || n == 0 || response.StatusCode != http.StatusOK {
		t.Errorf("the client that does no harm got status %d, %d bytes, then %v", response.StatusCode, n, err)
	}
	return time.Since(begun)
}

// memory returns a size in bytes from /proc/PID/status of the daemon: VmRSS is its current memory, VmHWM the peak.
func (d *daemon) memory(t *testing.T, name string) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	must.Succeed(t, err)
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			kib, err := strconv.Atoi(strings.Fields(rest)[0])
			must.Succeed(t, err)
			return kib << 10
		}
	}
	t.Fatalf("/proc does not tell %s", name)
	return 0
}

// attacker is the attacking process. Every second, it prints a line with the number of opened connections.
type attacker struct {
	cmd    *exec.Cmd
	out    *bufio.Scanner
	opened int
}

func startAttack(t *testing.T, address string) *attacker {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), lorisTarget+"="+address)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	must.Succeed(t, err)
	must.Succeed(t, cmd.Start())
	return &attacker{cmd: cmd, out: bufio.NewScanner(out)}
}

func (a *attacker) read(t *testing.T) {
	t.Helper()
	if !a.out.Scan() {
		t.Fatalf("the attacker has ended: %v", a.cmd.Wait())
	}
	var err error
	a.opened, err = strconv.Atoi(a.out.Text())
	must.Succeed(t, err)
}

// waitUntilHeld waits until each attacker has connected, on average.
func (a *attacker) waitUntilHeld(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(patience); a.opened < lorises; {
		if time.Now().After(deadline) {
			t.Fatalf("only %d of %d attackers connected", a.opened, lorises)
		}
		a.read(t)
	}
}

// stop ends the attack and returns the number of opened connections.
func (a *attacker) stop(t *testing.T) int {
	t.Helper()
	must.Succeed(t, a.cmd.Process.Signal(syscall.SIGTERM))
	for a.out.Scan() {
		a.opened, _ = strconv.Atoi(a.out.Text())
	}
	_ = a.cmd.Wait() // it was killed by the signal
	return a.opened
}

// attack is the main function of the attacker. It runs until it is killed.
func attack(address string) {
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, 19) // failure only lowers the load
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err == nil {
		limit.Cur = limit.Max
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit) // otherwise dialing fails, and waitUntilHeld reports that
	}
	var opened atomic.Int64
	for i := range lorises {
		go func() {
			for {
				time.Sleep(time.Duration(rand.Int63n(int64(2 * lorisRest)))) // attackers are paced
				loris(address, i%4, &opened)
			}
		}()
	}
	for range time.Tick(time.Second) {
		fmt.Fprintln(os.Stdout, opened.Load())
	}
}

// loris opens a connection and sends or reads one byte per second for as long as it can.
func loris(address string, kind int, opened *atomic.Int64) {
	dialer := net.Dialer{Timeout: patience, Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
	}}
	c, err := dialer.Dial("tcp", address)
	if err != nil {
		return
	}
	defer c.Close()
	opened.Add(1)
	const catalog = " /catalogs/sample/api/v1/"
	text := "GET" + catalog + "all HTTP/1.1\r\nHost: x\r\n"
	switch kind {
	case 2:
		text = "POST" + catalog + "graphql HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{"
	case 3:
		text += "\r\n"
	}
	if _, err := io.WriteString(c, text); err != nil {
		return
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	b := []byte{'a'}
	for range tick.C {
		if kind == 3 {
			_, err = c.Read(b)
		} else {
			_, err = c.Write(b)
		}
		if err != nil {
			return
		}
	}
}
