package registry

import "testing"

func TestCanonicalHost(t *testing.T) {
	for host, want := range map[string]string{
		"quay.example": "quay.example", "Quay.Example:443": "quay.example", "quay.example:80": "quay.example:80",
		"quay.example.": "quay.example", "quay.example.:443": "quay.example", "quay.example.:5000": "quay.example:5000",
		"quay.example:":     "quay.example",
		"quay.example:0443": "quay.example", "quay.example:05000": "quay.example:5000",
		"quay.example:8443": "quay.example:8443", "quay.example:8080": "quay.example:8080", "[::1]:443": "[::1]", "[::1]:5000": "[::1]:5000",
		"[::1]": "[::1]",
	} {
		if got := canonicalHost(host); got != want {
			t.Errorf("canonicalHost(%q) = %q, want %q", host, got, want)
		}
	}
}

func TestIsLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "LocalHost": true, "127.0.0.1": true, "127.9.9.9": true, "::1": true, "[::1]": true, "::ffff:127.0.0.1": true,
		"": false, "localhost.example": false, "registry.localhost": false, "10.0.0.1": false, "0.0.0.0": false, "::": false,
		"127.0.0.1.example": false,
	} {
		if got := isLoopback(host); got != want {
			t.Errorf("%q: got %t", host, got)
		}
	}
}

func TestScopeOf(t *testing.T) {
	for host, want := range map[string]scope{
		"registry.example": anywhere, "192.0.2.1": anywhere, "2001:db8::1": anywhere, "a1.example": anywhere, "": anywhere,
		"1registry": anywhere, "localhost.example": anywhere,
		"localhost": thisMachine, "LocalHost.": thisMachine, "registry.localhost": thisMachine, "127.0.0.1": thisMachine,
		"127.9.9.9": thisMachine,
		"::1":       thisMachine, "::ffff:127.0.0.1": thisMachine, "0.0.0.0": thisMachine, "::": thisMachine,
		"10.1.2.3": network, "172.16.0.1": network, "192.168.1.1": network, "169.254.169.254": network, "fd00:ec2::254": network,
		"fe80::1%eth0": network, "::ffff:10.0.0.1": network,
		"127.1": network, "2130706433": network, "0x7f000001": network, "0177.0.0.1": network, "10.0.0.1.": network, "①②⑦.0.0.1": network,
		"lоcalhost": network,
	} {
		if got := scopeOf(host); got != want {
			t.Errorf("%q: got %q, want %q", host, got, want)
		}
	}
}
