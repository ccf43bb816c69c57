package main

import (
	"errors"

	"k8s.io/apimachinery/pkg/api/resource"
)

// byteCount is the value of a flag that takes a number of bytes, written as Kubernetes writes quantities: 8Gi, 500M or 1000.
type byteCount int64

func (b *byteCount) Set(text string) error {
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Cmp(*resource.NewQuantity(q.Value(), q.Format)) != 0 { // 100m is a tenth of a byte, and never meant
		return errors.New("write a number of bytes, such as 500M or 8Gi")
	}
	*b = byteCount(q.Value())
	return nil
}

func (b *byteCount) String() string {
	return resource.NewQuantity(int64(*b), resource.BinarySI).String()
}

func (b *byteCount) Type() string { return "quantity" }
