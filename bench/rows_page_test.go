package main

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBareText(t *testing.T) {
	got, err := bareText(`<!doctype html><html><head><title>T</title><script>x</script></head><body class="a">
<nav><a href="?a=1&amp;b=2"><span>one</span> <span class="count">2</span></a></nav>
<p>x &lt; <strong>y</strong></p><script>no</script><img src="icon" alt="no"></body></html>`)
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := bytes.Cut(got, []byte("\n"))
	const want = "<p><a href=\"?a=1&amp;b=2\">one 2</a>\n<p>x &lt;\n<p>y\n"
	if diff := cmp.Diff(want, string(body)); diff != "" {
		t.Errorf("the text differs (-want +got):\n%s", diff)
	}
}

func TestLargestChannel(t *testing.T) {
	const all = `{"schema":"olm.package","name":"p"}
{"schema":"olm.channel","package":"p","name":"long","entries":[{"name":"a"},{"name":"b"},{"name":"c"},{"name":"d"}]}
{"schema":"olm.channel","package":"p","name":"wide","entries":[{"name":"a","skipRange":"<1"},{"name":"b","skipRange":"<2"},{"name":"c"}]}
{"schema":"other","package":"p","name":"olm.channel"}
`
	got, err := largestChannel([]byte(all))
	if err != nil || got.Package != "p" || got.Name != "wide" || len(got.Entries) != 3 {
		t.Errorf("got %+v, %v; want channel wide", got, err)
	}
	if _, err := largestChannel([]byte("{}\n")); err == nil {
		t.Error("no error without channels")
	}
}
