// Package helm holds no code: its module pins helm, by which tests render the chart, apart from catalogd's own go.mod. build.sh
// builds it.
package helm
