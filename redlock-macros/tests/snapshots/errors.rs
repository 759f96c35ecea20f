#[allow(unused_variables)]
async fn purchase(sku: &str) -> Result<Receipt, ShopError> {
    shop::buy(sku).await
}
compile_error! {
    "unknown option `kye`, did you mean `key`?"
}
compile_error! {
    "expected a duration such as `ttl = \"10s\"`, found an integer"
}
compile_error! {
    "an option and its value are joined by `=`: write `wait = \"5s\"`"
}
compile_error! {
    "`ttl` is given twice: remove one"
}
compile_error! {
    "`10` has no unit: write `\"10s\"`, or `ms`, `m`, `h`, `d`"
}
