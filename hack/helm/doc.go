// Package helm holds no code: its module pins the helm that tests use, apart from catalogd's own go.mod. build.sh
// builds it.
package helm
