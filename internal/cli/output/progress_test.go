package output

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestProgress(t *testing.T) {
	type step struct {
		after         time.Duration
		stage, detail string
	}
	steps := []step{
		{0, "Downloading", "1 MiB"},
		{time.Second, "Downloading", "2 MiB"},
		{repeatInterval, "Downloading", "3 MiB"},
		{time.Second, "Indexing", "\x1b[2J"},
	}
	tests := []struct {
		name string
		to   Terminal
		want string
	}{
		{"lines", Terminal{}, "Downloading: 1 MiB\nDownloading: 3 MiB\nIndexing: \uFFFD[2J\n"},
		{
			"over each other",
			Terminal{Live: true, Width: 14},
			"\r\x1b[KDownloading:…\r\x1b[KDownloading:…\r\x1b[KDownloading:…\r\x1b[KIndexing: \uFFFD[…\r\x1b[K",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			tt.to.Writer = &out
			p, now := tt.to.Progress(), time.Unix(0, 0)
			p.now = func() time.Time { return now }
			for _, s := range steps {
				now = now.Add(s.after)
				p.Show(s.stage, s.detail)
			}
			p.End()
			if diff := cmp.Diff(tt.want, out.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestStream(t *testing.T) {
	var out strings.Builder
	s := (&Terminal{Writer: &out}).Stream([]Column{{Name: "name"}, {Name: "n", Right: true}}, Options{})
	for _, rows := range [][][]string{{{"long-name", "1"}, {"b", "20"}}, {{"c", "3"}}, {{"longer-name", "400"}}, {{"d", "5"}}} {
		if err := s.Print(rows...); err != nil {
			t.Fatal(err)
		}
	}
	want := "NAME         N\nlong-name    1\nb           20\nc            3\nlonger-name   400\nd               5\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1048575: "1.0 MiB", 114465454: "109.2 MiB", 5 << 40: "5.0 TiB", 5 << 50: "5120.0 TiB",
	} {
		if got := Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %q, want %q", n, got, want)
		}
	}
}
