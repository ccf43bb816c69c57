package main

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadPorts(t *testing.T) {
	for _, test := range []struct {
		name        string
		environment map[string]string
		want        []string
		wantErr     string
	}{
		{name: "defaults", want: []string{"127.0.0.1:5005", "127.0.0.1:8080", "127.0.0.1:50051", "127.0.0.1:8081", "127.0.0.1:8082"}},
		{
			name:        "each moved",
			environment: map[string]string{"REGISTRY_PORT": "1", "CONTENT_PORT": "2", "GRPC_PORT": "4", "HEALTH_PORT": "3", "METRICS_PORT": "65535"},
			want:        []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:4", "127.0.0.1:3", "127.0.0.1:65535"},
		},
		{name: "no number", environment: map[string]string{"HEALTH_PORT": "http"}, wantErr: `HEALTH_PORT is "http"`},
		{name: "zero", environment: map[string]string{"HEALTH_PORT": "0"}, wantErr: `HEALTH_PORT is "0"`},
		{name: "too large", environment: map[string]string{"HEALTH_PORT": "65536"}, wantErr: `HEALTH_PORT is "65536"`},
		{
			name:        "one port twice",
			environment: map[string]string{"METRICS_PORT": "8080"},
			wantErr:     "port 8080 is used for both catalogd's content and catalogd's metrics: change CONTENT_PORT or METRICS_PORT",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := readPorts(func(name string) string { return test.environment[name] })
			if test.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantErr) {
					t.Fatalf("readPorts() = %v, want an error with %q", err, test.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var addresses []string
			for _, each := range got.all() {
				addresses = append(addresses, each.address())
			}
			if diff := cmp.Diff(test.want, addresses); diff != "" {
				t.Errorf("addresses differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFree(t *testing.T) {
	var numbers []int
	var listeners []net.Listener
	for _, address := range []string{"127.0.0.1:0", "0.0.0.0:0", "127.0.0.1:0"} {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, listener)
		numbers = append(numbers, listener.Addr().(*net.TCPAddr).Port)
	}
	tested := ports{
		registry: port{"the registry", "REGISTRY_PORT", numbers[0]},
		content:  port{"the content", "CONTENT_PORT", numbers[1]},
		health:   port{"the health", "HEALTH_PORT", numbers[2]},
	}
	if err := listeners[2].Close(); err != nil {
		t.Fatal(err)
	}
	err := tested.free()
	if err == nil {
		t.Fatal("free() found two busy ports free")
	}
	for _, want := range []string{
		fmt.Sprintf("port %d, for the registry, is not free", numbers[0]), "make run REGISTRY_PORT=",
		fmt.Sprintf("port %d, for the content, is not free", numbers[1]), "make run CONTENT_PORT=",
		fmt.Sprintf("(process %d) listens there", os.Getpid()),
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("free() = %v, which lacks %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "HEALTH_PORT") {
		t.Errorf("free() = %v, which names a free port", err)
	}
	for _, listener := range listeners[:2] {
		if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := tested.free(); err != nil {
		t.Errorf("free() = %v with all ports free", err)
	}
}

func TestListeningInode(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:138D 00000000:0000 01 00000000:00000000 00:00000000 00000000     0        0 11111 1 0000000000000000 100 0 0 10 0
   1: 0100007F:138D 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 22222 1 0000000000000000 100 0 0 10 0
   2: 0100007F:1F90 0100007F:138E 0A 00000000:00000000 00:00000000 00000000     0        0 33333 1 0000000000000000 100 0 0 10 0
   3: cut short
`
	for number, want := range map[int]string{5005: "22222", 8080: "33333", 5006: ""} {
		if got := listeningInode(strings.NewReader(table), number); got != want {
			t.Errorf("listeningInode(%d) = %q, want %q", number, got, want)
		}
	}
}
