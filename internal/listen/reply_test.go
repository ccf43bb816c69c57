package listen

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// ways are the ways in which a handler can write a part of a file. All requests share the file.
func ways(file *os.File, content []byte) map[string]func(w http.ResponseWriter, from, size int64) error {
	section := func(from, size int64) io.Reader { return io.NewSectionReader(file, from, size) }
	return map[string]func(http.ResponseWriter, int64, int64) error{
		"at once": func(w http.ResponseWriter, from, size int64) error {
			_, err := w.Write(content[from : from+size])
			return err
		},
		"in small writes": func(w http.ResponseWriter, from, size int64) error {
			_, err := io.CopyBuffer(struct{ io.Writer }{w}, section(from, size), make([]byte, 1000))
			return err
		},
		"section": func(w http.ResponseWriter, from, size int64) error {
			_, err := io.Copy(w, section(from, size))
			return err
		},
		"limited section": func(w http.ResponseWriter, from, size int64) error {
			_, err := io.CopyN(w, section(from, int64(len(content))-from), size)
			return err
		},
		"two sections": func(w http.ResponseWriter, from, size int64) error {
			_, err := io.Copy(w, section(from, size/3))
			if err == nil {
				_, err = io.Copy(w, section(from+size/3, size-size/3))
			}
			return err
		},
		"flushed between": func(w http.ResponseWriter, from, size int64) error {
			_, err := w.Write(content[from : from+size/3])
			if err == nil {
				err = http.NewResponseController(w).Flush()
			}
			if err == nil {
				_, err = io.Copy(w, section(from+size/3, size-size/3))
			}
			return err
		},
	}
}

// Responses of any size and way of writing are complete, in sequence on one connection and concurrently from one file.
func TestRepliesOfAnySize(t *testing.T) {
	content := make([]byte, 300<<10)
	for i := range content {
		content[i] = byte(i ^ i>>8)
	}
	shared, err := os.Open(file(t, content))
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Close()
	all := ways(shared, content)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		from, _ := strconv.ParseInt(query.Get("from"), 10, 64)
		size, _ := strconv.ParseInt(query.Get("size"), 10, 64)
		if query.Get("length") != "" {
			w.Header().Set("Content-Type", "text/plain")
			w.Header().Set("Content-Length", query.Get("size"))
		}
		if err := all[query.Get("way")](w, from, size); err != nil {
			t.Errorf("%s: the handler got %v", r.URL, err)
		}
	})
	const buffered = 4 << 10 // by net/http for each connection
	sizes := []int{0, 1, 1 << 10, buffered, 2 * buffered, pieceSize - 200, pieceSize, pieceSize + 1, 60 << 10, 200 << 10}
	for size := buffered - 300; size < buffered; size += 20 {
		sizes = append(sizes, size)
	}
	for _, protocol := range protocols {
		p := serve(t, protocol, Config{Handler: handler})
		client := p.client(t, protocol)
		var readers sync.WaitGroup
		for way := range all {
			readers.Go(func() {
				for i, size := range sizes {
					for _, length := range []string{"", "known"} {
						from := 1000*i + len(way)
						query := url.Values{"way": {way}, "from": {strconv.Itoa(from)}, "size": {strconv.Itoa(size)}, "length": {length}}
						if err := wants(client, p.url+"?"+query.Encode(), content[from:from+size]); err != nil {
							t.Errorf("%s, %s, %d bytes, length %s: %v", protocol, way, size, length, err)
						}
					}
				}
			})
		}
		readers.Wait()
	}
}

func wants(client *http.Client, url string, want []byte) error {
	response, err := client.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	if err == nil && !bytes.Equal(got, want) {
		err = fmt.Errorf("got %d other bytes", len(got))
	}
	return err
}

// A header of any size precedes the content of a file, also one that is larger than a piece.
func TestHeaderOfAnySize(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 6<<10)
	path := file(t, content)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for i := range 3 { // net/http writes each in parts of its own
			w.Header().Set("X-Fill-"+strconv.Itoa(i), strings.Repeat("x", len(r.URL.Path)*pieceSize/8))
		}
		http.ServeFile(w, r, path)
	})
	p := serve(t, "HTTP/1.1", Config{Handler: handler})
	for length := range 9 {
		if err := wants(p.client(t, "HTTP/1.1"), p.url+"/"+strings.Repeat("p", length), content); err != nil {
			t.Errorf("with 3 fields of %d pieces/8: %v", length+1, err)
		}
	}
}
