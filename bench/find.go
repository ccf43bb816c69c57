package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// found is a package in the content of a catalog.
type found struct {
	name        string
	blob, total int // bytes of its olm.package blob, and of all its blobs
}

// findPackages reads JSON lines.
func findPackages(all []byte) ([]found, error) {
	var list []found
	numbers := map[string]int{}
	for line := range bytes.Lines(all) {
		var blob struct{ Schema, Name, Package string }
		if err := json.Unmarshal(line, &blob); err != nil {
			return nil, fmt.Errorf("reading /all: %w", err)
		}
		of := blob.Package
		if blob.Schema == "olm.package" {
			of = blob.Name
		}
		if of == "" {
			continue
		}
		i, ok := numbers[of]
		if !ok {
			i = len(list)
			numbers[of] = i
			list = append(list, found{name: of})
		}
		list[i].total += len(line)
		if blob.Schema == "olm.package" {
			list[i].blob = len(line)
		}
	}
	if len(list) == 0 {
		return nil, errors.New("the catalog has no packages")
	}
	return list, nil
}

// nearest returns the package whose size is nearest to the wanted one.
func nearest(list []found, want int, size func(found) int) found {
	best := list[0]
	for _, f := range list {
		if math.Abs(float64(size(f)-want)) < math.Abs(float64(size(best)-want)) {
			best = f
		}
	}
	return best
}
