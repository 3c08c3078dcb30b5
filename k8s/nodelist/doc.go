// Package nodelist reads the list of a group's members from the Nodes of the API server.
//
// # What it decides
//
// [Members] turns Nodes into members, and [Judge] decides whether a list is believed, both without I/O. All nodes of a
// group derive the same list from the same Nodes: nothing that differs from node to node is used. This package does not
// number lists. It shows the lists that are believed to netgossip's Succession, under whose joint majorities they
// become valid.
//
// # Load on the API server
//
// [Source.Run] lists the Nodes with the group's label soon after the start, and then once in each Interval, at a random
// time; it does not watch them. The server's cache answers these requests (resource version 0). Only a list that
// differs from the present one is read again exactly, in pages, since a cache may be older than an earlier answer. In
// groups of more than [groupLists] nodes each node looks more rarely, so that the whole group sends at most that many
// lists in an interval. When one node has found a change, it tells the others that there is one. They then look within
// a time that grows with the group.
//
// # Concurrency
//
// Run has the only goroutine and calls the functions of [Config] from it; they must not block. [Source.Read] may be
// called from any goroutine before Run. A list ends after [listTimeout]. Errors are logged when they change, and the
// present list stays in use.
package nodelist
