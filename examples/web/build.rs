//! Makes Rust of the service of `proto/shop.proto`. `protox` is a compiler in Rust: `protoc` is not
//! needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    Ok(tonic_prost_build::compile_fds(protox::compile(["shop.proto"], ["proto"])?)?)
}
