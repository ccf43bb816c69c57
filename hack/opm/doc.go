// Package opm holds no code: its module pins operator-registry's opm, which tests compare catalogd with, apart from catalogd's
// own go.mod. build.sh builds it.
package opm
