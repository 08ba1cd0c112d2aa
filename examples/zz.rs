use warpsparse::{Amg, Device, io::MatrixSource};
fn main() {
    for name in std::env::args().skip(1) {
        let source: MatrixSource = name.parse().unwrap();
        let a = source.load::<f64>().unwrap();
        let device = Device::cpu();
        let a = device.upload(&a).unwrap();
        let t = std::time::Instant::now();
        let amg = Amg::new(&a).unwrap();
        println!("{name} {:?}\n{}", t.elapsed(), amg.describe());
    }
}
