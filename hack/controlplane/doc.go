// Package controlplane holds no code: its module pins the Kubernetes components of the local control plane.
package controlplane
