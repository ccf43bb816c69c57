// Package tools holds no code: its module pins the developers' tools (linter, generators) apart from catalogd's own go.mod.
package tools
