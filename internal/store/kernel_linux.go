package store

import (
	"math"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// startWriteback asks the kernel to begin writing a part of a file to the disk, so that the sync at the end has little left
// to wait for. It promises nothing, and whether it worked is nobody's concern.
func startWriteback(f *os.File, offset, size int64) {
	_ = unix.SyncFileRange(int(f.Fd()), offset, size, unix.SYNC_FILE_RANGE_WRITE)
}

// lowerPriority gives the calling goroutine what processors have left over, for as long as it lives: it gets a thread of its
// own, which ends with it.
func lowerPriority() {
	const nicest = 19
	runtime.LockOSThread()
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, nicest) // of this thread; where that is forbidden, it is as quick as the others
}

// freeBytes is what an ordinary user may still write to a volume; a great number if that cannot be told.
func freeBytes(v *volume) int64 {
	var stat unix.Statfs_t
	if err := unix.Statfs(v.Name(), &stat); err != nil {
		return math.MaxInt64
	}
	return int64(stat.Bavail) * int64(stat.Bsize) //nolint:unconvert // on s390x it is a uint32
}

// touch reads the beginning of a file from the disk itself, past what the kernel remembers of it, where that can be. Whatever the disk says is
// an answer.
func touch(v *volume, name string) {
	f, err := v.OpenFile(name, os.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		f, err = v.Open(name) // a file system that has no disk of its own
	}
	if err != nil {
		return
	}
	defer f.Close()
	block, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS) // aligned as O_DIRECT wants it
	if err != nil {
		return
	}
	defer func() { _ = unix.Munmap(block) }()
	_, _ = f.Read(block)
}
