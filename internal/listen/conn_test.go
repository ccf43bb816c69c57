package listen

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// Files are sent with sendfile. Otherwise this process would allocate a buffer for each piece.
func TestFilesAreSentByTheKernel(t *testing.T) {
	const size = 64 << 20
	name := filepath.Join(t.TempDir(), "content")
	if err := errors.Join(os.WriteFile(name, nil, 0o600), os.Truncate(name, size)); err != nil {
		t.Fatal(err)
	}
	p := serve(t, protocols[0], Config{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, name)
	})})
	c := p.dial(t, "GET / HTTP/1.0\r\n\r\n")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{c}, make([]byte, 64<<10))
	runtime.ReadMemStats(&after)
	if err != nil || n < size {
		t.Fatalf("got %d bytes of %d, then %v", n, size, err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > size/4 {
		t.Errorf("sending a file of %d bytes allocated %d", size, used)
	}
}

// ReadFrom sends its whole source, of any kind.
func TestReadFrom(t *testing.T) {
	const size = 3*pieceSize + 100
	content := bytes.Repeat([]byte("x"), size)
	path := file(t, content)
	for name, test := range map[string]struct {
		source func(*os.File) io.Reader
		want   int64
	}{
		"file":          {func(f *os.File) io.Reader { return f }, size},
		"part":          {func(f *os.File) io.Reader { return io.LimitReader(f, 2*pieceSize) }, 2 * pieceSize},
		"ends early":    {func(f *os.File) io.Reader { return io.LimitReader(f, 2*size) }, size},
		"no file":       {func(*os.File) io.Reader { return struct{ io.Reader }{bytes.NewReader(content)} }, size},
		"part of other": {func(*os.File) io.Reader { return io.LimitReader(bytes.NewReader(content), 10) }, 10},
		"nothing":       {func(f *os.File) io.Reader { return io.LimitReader(f, 0) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			file, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			l := newListener(listener, newTable(Config{MaxConnections: 1, Stall: time.Minute}), time.Minute)
			defer l.Close()
			reader, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			got := make(chan int64, 1)
			go func() {
				n, _ := io.Copy(io.Discard, reader)
				got <- n
			}()
			source := test.source(file)
			n, err := c.(io.ReaderFrom).ReadFrom(source)
			c.Close()
			if n != test.want || err != nil || receive(t, "the end", got) != test.want {
				t.Errorf("got %d, %v, want %d", n, err, test.want)
			}
			if l, ok := source.(*io.LimitedReader); ok && name == "part" && l.N != 0 {
				t.Errorf("its limit still allows %d bytes", l.N)
			}
		})
	}
}
