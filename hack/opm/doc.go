// Package opm holds no code: its module pins the opm that tests compare catalogd with, apart from catalogd's own
// go.mod. build.sh builds it.
package opm
