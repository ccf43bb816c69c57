package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// port is a loopback port of this run, and the variable that changes it.
type port struct {
	what, variable string
	number         int
}

func (p port) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.number)) }
func (p port) url() string     { return "http://" + p.address() }

type ports struct{ registry, content, grpc, health, metrics port }

func (p ports) all() []port { return []port{p.registry, p.content, p.grpc, p.health, p.metrics} }

// readPorts returns the ports from the environment or their defaults.
func readPorts(getenv func(string) string) (ports, error) {
	p := ports{
		registry: port{"the registry", "REGISTRY_PORT", 5005},
		content:  port{"catalogd's content", "CONTENT_PORT", 8080},
		grpc:     port{"catalogd's gRPC", "GRPC_PORT", 50051},
		health:   port{"catalogd's health", "HEALTH_PORT", 8081},
		metrics:  port{"catalogd's metrics", "METRICS_PORT", 8082},
	}
	takenBy := map[int]port{}
	for _, each := range []*port{&p.registry, &p.content, &p.grpc, &p.health, &p.metrics} {
		if value := getenv(each.variable); value != "" {
			number, err := strconv.ParseUint(value, 10, 16)
			if err != nil || number == 0 {
				return ports{}, fmt.Errorf("%s is %q; it must be a port, 1 to 65535", each.variable, value)
			}
			each.number = int(number)
		}
		if other, taken := takenBy[each.number]; taken {
			return ports{}, fmt.Errorf("port %d is used for both %s and %s: change %s or %s",
				each.number, other.what, each.what, other.variable, each.variable)
		}
		takenBy[each.number] = *each
	}
	return p, nil
}

// free returns an error that describes each port in use.
func (p ports) free() error {
	var errs []error
	for _, each := range p.all() {
		listener, err := net.Listen("tcp", each.address())
		if err != nil {
			errs = append(errs, fmt.Errorf("port %d, for %s, is not free: %s; stop that, or choose another port: make run %s=PORT",
				each.number, each.what, cmp.Or(listenerOf(each.number), err.Error()), each.variable))
			continue
		}
		_ = listener.Close()
	}
	return errors.Join(errs...)
}

// listenerOf returns the process that listens on a TCP port of this machine, or "" if it is unknown (not on Linux,
// or of another user).
func listenerOf(number int) string {
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		file, err := os.Open(table)
		if err != nil {
			continue
		}
		inode := listeningInode(file, number)
		_ = file.Close()
		if pid := socketOwner(inode); pid != "" {
			command, _ := os.ReadFile(filepath.Join("/proc", pid, "comm"))
			return fmt.Sprintf("%s (process %s) listens there", strings.TrimSpace(string(command)), pid)
		}
	}
	return ""
}

// listeningInode returns the inode of the socket that listens on a port, from a table as in proc_net_tcp(5), or "".
func listeningInode(table io.Reader, number int) string {
	const local, state, inode, listen = 1, 3, 9, "0A"
	suffix := fmt.Sprintf(":%04X", number)
	for lines := bufio.NewScanner(table); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) > inode && fields[state] == listen && strings.HasSuffix(fields[local], suffix) {
			return fields[inode]
		}
	}
	return ""
}

func socketOwner(inode string) (pid string) {
	if inode == "" {
		return ""
	}
	descriptors, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, descriptor := range descriptors {
		if target, err := os.Readlink(descriptor); err == nil && target == "socket:["+inode+"]" {
			return strings.Split(descriptor, "/")[2]
		}
	}
	return ""
}
