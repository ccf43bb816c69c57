package store

import (
	"math"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// startWriteback asks the kernel to begin writing a part of a file to the disk, so that a later sync waits less. It
// guarantees nothing.
func startWriteback(f *os.File, offset, size int64) {
	_ = unix.SyncFileRange(int(f.Fd()), offset, size, unix.SYNC_FILE_RANGE_WRITE)
}

// lowerPriority moves the calling goroutine to a thread of lowest priority, for good. The thread ends with it.
func lowerPriority() {
	const nicest = 19
	runtime.LockOSThread()
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, nicest) // of this thread; may be forbidden
}

// freeBytes returns how many bytes an ordinary user can write to a volume; math.MaxInt64 if that is unknown.
func freeBytes(v *volume) int64 {
	var stat unix.Statfs_t
	if err := unix.Statfs(v.Name(), &stat); err != nil {
		return math.MaxInt64
	}
	return int64(stat.Bavail) * int64(stat.Bsize) //nolint:unconvert // on s390x it is a uint32
}

// touch reads the beginning of a file, past the kernel's cache where the file system has a disk of its own.
func touch(v *volume, name string) {
	f, err := v.OpenFile(name, os.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		f, err = v.Open(name)
	}
	if err != nil {
		return
	}
	defer f.Close()
	const flags = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	block, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, flags) // aligned as O_DIRECT requires
	if err != nil {
		return
	}
	defer func() { _ = unix.Munmap(block) }()
	_, _ = f.Read(block)
}
