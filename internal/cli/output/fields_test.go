package output

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFields(t *testing.T) {
	var b strings.Builder
	to := &Terminal{Writer: &b, Width: 34, Colors: true}
	painted := to.Paint(Red, "does not") + " exist"
	digest := "sha256:" + strings.Repeat("0", 40)
	if err := to.Fields(2, [2]string{
		"Polled", "every 15m; last 漢字漢字漢 ago; and so on",
	}, [2]string{"None", ""}, [2]string{"Digest", "it is " + digest + "\nhere"},
		[2]string{"Needs", painted}); err != nil {
		t.Fatal(err)
	}
	want := "  Polled:  every 15m; last\n           漢字漢字漢 ago; and so\n           on\n" +
		"  Digest:  it is\n           " + digest + "\n           here\n  Needs:   does not exist\n"
	if diff := cmp.Diff(want, unpainted(b.String())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
