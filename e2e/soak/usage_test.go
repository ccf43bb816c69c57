package soak

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// usage is the resource usage of a process and its volume.
type usage struct {
	memory     int64 // resident, in bytes
	files      int   // open file descriptors
	goroutines int
	disk       int64 // bytes of the allocated blocks below the data directory
}

func (u usage) String() string {
	return fmt.Sprintf("memory %d MiB, %d open files, %d goroutines, disk %.1f MiB", u.memory>>20, u.files, u.goroutines,
		float64(u.disk)/(1<<20))
}

// usage reads the usage from the kernel and from /metrics.
func (d *daemon) usage() (u usage, err error) {
	proc := fmt.Sprintf("/proc/%d/", d.pid())
	if u.memory, err = resident(proc + "status"); err != nil {
		return u, err
	}
	files, err := os.ReadDir(proc + "fd")
	if err != nil {
		return u, err
	}
	u.files = len(files)
	if u.goroutines, err = goroutines("http://" + d.metrics + "/metrics"); err != nil {
		return u, err
	}
	u.disk, err = diskUsage(d.dataDir)
	return u, err
}

func resident(file string) (int64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("%s does not tell VmRSS", file)
}

func goroutines(url string) (int, error) {
	response, err := http.Get(url)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if n, ok := strings.CutPrefix(lines.Text(), "go_goroutines "); ok {
			return strconv.Atoi(n)
		}
	}
	return 0, fmt.Errorf("%s does not tell go_goroutines", url)
}

// diskUsage returns the disk usage of a directory whose files are created and deleted meanwhile.
func diskUsage(dir string) (total int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil {
			var info fs.FileInfo
			if info, err = entry.Info(); err == nil {
				total += info.Sys().(*syscall.Stat_t).Blocks * 512
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return total, err
}

// entries returns the names in a directory of the volume.
func (d *daemon) entries(dir string) ([]string, error) {
	list, err := os.ReadDir(filepath.Join(d.dataDir, dir))
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names, err
}

// shrinks waits until a directory of the volume has at most this many entries: compressed forms of a removed
// catalog are deleted a moment later.
func (d *daemon) shrinks(ctx context.Context, dir string, most int) error {
	return within(ctx, patience, func() error {
		names, err := d.entries(dir)
		if err == nil && len(names) > most {
			err = fmt.Errorf("%s/ has %d entries, %q; want at most %d", dir, len(names), names, most)
		}
		return err
	})
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }
