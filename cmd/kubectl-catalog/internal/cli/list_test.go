package cli

import "testing"

// Of several names those that there are, are listed, as kubectl does.
func TestListSomeOfThese(t *testing.T) {
	server := apiServer(t, map[string]string{"a": "http://127.0.0.1:1/catalogs/a"})
	code, stdout, stderr := run(t, "list", "nope", "a", "-o", "name", "--server", server)
	want := "error: there is no catalog \"nope\": kubectl catalog list shows those there are\n"
	if code != exitNotFound || stdout != "catalogsource.catalogd.operatorframework.io/a\n" || stderr != want {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	code, stdout, stderr = run(t, "list", "nope", "--server", server)
	if code != exitNotFound || stdout != "" || stderr != want {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
}
