// Package lunhold is a model of nodes that hold with the others by the LUN while all networks are silent.
package lunhold
