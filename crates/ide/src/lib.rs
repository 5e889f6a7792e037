//! IDE
