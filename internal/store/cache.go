package store

import (
	"cmp"
	"container/list"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"sync"
)

// Cache keeps files that can be fetched again, the images of bundles, within Options.CacheBytes. The least recently used are
// evicted first; all are, before a snapshot lacks room. A file is there completely or not at all, also after a crash. After a
// restart, files count as used when they were written. Methods can be called concurrently.
type Cache struct {
	volume *volume
	space  *space
	limit  int64

	changing sync.Mutex // held while files are published or removed

	mu         sync.Mutex // never held during I/O
	recent     *list.List // of cached; the most recently used first
	byKey      map[string]*list.Element
	bytes      int64
	evicted    int64
	generation int64 // of the last file
}

type cached struct {
	key        string
	size       int64
	generation int64
}

// CacheUsage is what a cache holds.
type CacheUsage struct {
	Files   int
	Bytes   int64
	Limit   int64
	Evicted int64 // files, since the process started
}

func newCache(v *volume, sp *space, limit int64) *Cache {
	return &Cache{volume: v, space: sp, limit: limit, recent: list.New(), byKey: map[string]*list.Element{}}
}

// load finds the files of earlier processes, and evicts those that exceed the limit.
func (c *Cache) load() error {
	entries, err := fs.ReadDir(c.volume.FS(), cacheDir)
	if err != nil {
		return err
	}
	infos := make([]fs.FileInfo, 0, len(entries))
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			infos = append(infos, info)
		}
	}
	slices.SortStableFunc(infos, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, info := range infos {
		c.add(info.Name(), info.Size())
	}
	return c.evict(c.limit)
}

// Open opens a file, which counts as used then. The caller closes it. The error is fs.ErrNotExist if there is none.
func (c *Cache) Open(key string) (*os.File, error) {
	if _, ok := c.use(key); !ok {
		return nil, fs.ErrNotExist
	}
	return c.volume.Open(path.Join(cacheDir, key))
}

// Use makes a file count as used, without opening it. A file that replaces another has another generation. Around the
// replacement, Open may return the file before or after the generation.
func (c *Cache) Use(key string) (generation int64, ok bool) {
	f, ok := c.use(key)
	return f.generation, ok
}

func (c *Cache) use(key string) (cached, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byKey[key]
	if !ok {
		return cached{}, false
	}
	c.recent.MoveToFront(e)
	return e.Value.(cached), true
}

// Put writes or replaces a file of at most that many bytes. Other files are evicted to make room. The error wraps
// syscall.ENOSPC if the volume has none, or the limit is lower.
func (c *Cache) Put(key string, most int64, write func(io.Writer) error) error {
	room, err := c.makeRoom(most)
	if err != nil {
		return err
	}
	room.Free = min(room.Free, most)
	staged := c.volume.stageName()
	if err := c.volume.writeFile(staged, func(w io.Writer) error { return write(&bounded{w, room}) }); err != nil {
		return err
	}
	stat, err := c.volume.Lstat(staged)
	if err != nil {
		return errors.Join(err, c.volume.Remove(staged))
	}
	c.changing.Lock()
	defer c.changing.Unlock()
	replaced, _ := c.use(key)
	if err := c.evict(c.limit - stat.Size() + replaced.size); err != nil {
		return errors.Join(err, c.volume.Remove(staged))
	}
	err = c.volume.publishFile(staged, path.Join(cacheDir, key))
	if there, statErr := c.volume.Lstat(path.Join(cacheDir, key)); statErr == nil { // after an error it may be the old or the new file
		c.add(key, there.Size())
	}
	return err
}

// Fits reports whether a file of that many bytes can be added without evicting another.
func (c *Cache) Fits(size int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes+size <= c.limit
}

// makeRoom returns the usage of the volume once it has room for so many bytes.
func (c *Cache) makeRoom(need int64) (Usage, error) {
	if need > c.limit {
		return Usage{}, &noRoomError{need, Usage{Limit: c.limit, Free: c.limit}}
	}
	u, err := c.space.require(need)
	if u.Free >= need || !errors.As(err, new(*noRoomError)) {
		return u, err
	}
	c.changing.Lock()
	err = c.evict(max(c.Usage().Bytes-(need-u.Free), 0))
	c.changing.Unlock()
	if err != nil {
		return u, err
	}
	return c.space.require(need)
}

// Remove removes a file, if it exists.
func (c *Cache) Remove(key string) error {
	c.changing.Lock()
	defer c.changing.Unlock()
	return cmp.Or(c.remove(key), c.volume.syncDir(cacheDir))
}

// clear removes all files.
func (c *Cache) clear() error {
	c.changing.Lock()
	defer c.changing.Unlock()
	if c.Usage().Files == 0 {
		return nil
	}
	return cmp.Or(c.evict(0), c.volume.syncDir(cacheDir))
}

// Usage returns what the cache holds.
func (c *Cache) Usage() CacheUsage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return CacheUsage{Files: c.recent.Len(), Bytes: c.bytes, Limit: c.limit, Evicted: c.evicted}
}

// evict removes files until the others have at most so many bytes. The caller holds changing.
func (c *Cache) evict(left int64) error {
	for {
		c.mu.Lock()
		last := c.recent.Back()
		done := last == nil || c.bytes <= left
		c.mu.Unlock()
		if done {
			return nil
		}
		if err := c.remove(last.Value.(cached).key); err != nil {
			return fmt.Errorf("evicting a file from the cache: %w", err)
		}
		c.mu.Lock()
		c.evicted++
		c.mu.Unlock()
	}
}

// remove removes a file; syncing the directory makes that durable. The caller holds changing.
func (c *Cache) remove(key string) error {
	if err := c.volume.Remove(path.Join(cacheDir, key)); ignoreMissing(err) != nil {
		return err
	}
	c.drop(key)
	return nil
}

func (c *Cache) add(key string, size int64) {
	c.drop(key)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.generation++
	c.byKey[key] = c.recent.PushFront(cached{key, size, c.generation})
	c.bytes += size
}

func (c *Cache) drop(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byKey[key]; ok {
		c.bytes -= c.recent.Remove(e).(cached).size
		delete(c.byKey, key)
	}
}

// Scratch returns an empty directory for work on a file that may become part of the cache. A start deletes what a crash left.
func (c *Cache) Scratch() (root *os.Root, discard func() error, err error) {
	dir := c.volume.stageName()
	files := path.Join(dir, "files")
	err = c.volume.Mkdir(dir)
	if err == nil {
		err = c.volume.Mkdir(files)
	}
	if err == nil {
		root, err = c.volume.OpenRoot(files)
	}
	if err != nil {
		return nil, nil, errors.Join(err, c.volume.RemoveAll(dir))
	}
	return root, func() error { return errors.Join(root.Close(), c.volume.RemoveAll(dir)) }, nil
}
