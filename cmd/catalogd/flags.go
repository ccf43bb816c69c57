package main

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
)

// byteCount is a flag value in bytes, written as a Kubernetes quantity: 8Gi, 500M or 1000.
type byteCount int64

func (b *byteCount) Set(text string) error {
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Cmp(*resource.NewQuantity(q.Value(), q.Format)) != 0 { // 100m would be a tenth of a byte
		return errors.New("write a number of bytes, such as 500M or 8Gi")
	}
	*b = byteCount(q.Value())
	return nil
}

func (b *byteCount) String() string {
	return resource.NewQuantity(int64(*b), resource.BinarySI).String()
}

func (b *byteCount) Type() string { return "quantity" }

// parseSelector parses a selector as kubectl's --selector does; nil selects all.
func parseSelector(text string) (labels.Selector, error) {
	selector, err := labels.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("use the syntax of kubectl's --selector, such as team=a or env in (test,stage): %w", err)
	}
	if selector.Empty() {
		return nil, nil
	}
	return selector, nil
}
